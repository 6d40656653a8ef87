"""Run once before the services start: schema, keys, broker policies. Safe to repeat.

The issuer's private key stays in the volume /issuer, which only this and the command line mount; services get the
public half in /keys and can verify tokens but not issue them. The key that signs source URLs of jobs is in /keys, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared.auth import Authority
from shared.auth.keyring import create_key_file
from shared.signed_sources.keys import create_file

PRIVATE_KEY = Path("/issuer/token_key.pem")
PUBLIC_KEY = Path("/keys/token_public_key.pem")
SOURCE_KEY = Path("/keys/source_key")
#: the dispatcher and the command line alone mount it
SECRETS_KEYS = Path("/secrets/secrets.keys")
#: the console alone mounts it
CONSOLE_KEYS = Path("/console/console.keys")


def main() -> int:
    """The exit code of the first step that failed, else 0."""
    authority = Authority.create_file(PRIVATE_KEY)
    PUBLIC_KEY.write_bytes(authority.public_pem())
    print(f"{PUBLIC_KEY} is the public half of {PRIVATE_KEY}")
    create_key_file(SECRETS_KEYS)
    create_key_file(CONSOLE_KEYS)
    create_file(SOURCE_KEY)
    import_definitions = Path(__file__).resolve().parents[1] / "rabbitmq" / "import_definitions.py"
    for arguments in (["-m", "services.cli", "migrate"], [str(import_definitions)]):
        code = subprocess.run([sys.executable, *arguments], env=os.environ, check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
