#!/bin/bash
# Copies the primary if the volume is empty, then follows it.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    export PGPASSWORD="$POSTGRES_PASSWORD"
    until pg_basebackup --dbname="host=cluster-primary user=$POSTGRES_USER application_name=standby" --slot=standby \
        --pgdata="$PGDATA" --write-recovery-conf --wal-method=stream --checkpoint=fast; do
        # What an interrupted copy has left would stop the next one.
        find "$PGDATA" -mindepth 1 -delete
        sleep 2
    done
    chmod 0700 "$PGDATA"
fi
exec postgres -c config_file=/etc/postgresql/postgresql.conf
