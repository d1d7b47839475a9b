#!/bin/bash
# Runs once, when the primary's volume is empty: let the standby replicate.
set -eu
psql --variable=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
    --command="SELECT pg_create_physical_replication_slot('standby')"
echo "host replication $POSTGRES_USER samenet scram-sha-256" >> "$PGDATA/pg_hba.conf"
