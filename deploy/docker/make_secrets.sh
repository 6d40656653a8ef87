#!/bin/sh
# Print random passwords for compose.yaml: sh deploy/docker/make_secrets.sh > .env
# (git ignores .env; keep it, the volumes remember the passwords they were made with)
set -eu
umask 077
for name in ORRERY_POSTGRES_PASSWORD ORRERY_RABBITMQ_PASSWORD ORRERY_REDIS_PASSWORD; do
    printf '%s=%s\n' "$name" "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
done
