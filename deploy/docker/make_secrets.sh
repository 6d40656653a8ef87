#!/bin/sh
# Write random passwords for compose.yaml: sh deploy/docker/make_secrets.sh [FILE]    (.env beside compose.yaml)
# A file that is there stays as it is: the volumes remember the passwords they were made with. Git ignores .env.
set -eu
umask 077
file=${1:-$(dirname "$0")/../../.env}
if [ -e "$file" ]; then
    echo "$file is there: its passwords are kept"
    exit 0
fi
for name in ORRERY_POSTGRES_PASSWORD ORRERY_RABBITMQ_PASSWORD ORRERY_REDIS_PASSWORD; do
    printf '%s=%s\n' "$name" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
done > "$file.new"
mv "$file.new" "$file"
echo "passwords are in $file"
