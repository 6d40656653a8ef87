"""`python -m services.cli` is the same as `orrery`."""

from services.cli.app import main

if __name__ == "__main__":
    main()
