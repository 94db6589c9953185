#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
#
# usage: postgres.sh RELAYD-PASSFILE REPLICATOR-PASSFILE [FLAG ...]
# Runs a PostgreSQL server with its data in $PGDATA. Without data it makes some first: a copy of the server $PRIMARY, which it then follows,
# or without $PRIMARY an empty database for a relay. Each passfile has one line host:port:database:user:password.
set -euo pipefail
umask 077
relayd=$1 replicator=$2
shift 2

if [ "$(id -u)" = 0 ]; then
    # The server does not run as root, and others may not read the secrets.
    home=$(dirname "$PGDATA")
    install -d -o postgres -m 700 "$home"
    install -o postgres -m 600 "$relayd" "$home/relayd-pgpass"
    install -o postgres -m 600 "$replicator" "$home/replicator-pgpass"
    exec setpriv --reuid=postgres --regid=postgres --init-groups bash "$0" "$home/relayd-pgpass" "$home/replicator-pgpass" "$@"
fi

password() {
    local line quote="'"
    line=$(head -n 1 "$1")
    line=${line#*:*:*:*:}
    echo "${line//$quote/$quote$quote}"
}

make() {
    initdb --auth-local=peer --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --username=postgres -D "$1"
    # Its standard input is in no list of processes. Each line is a statement.
    postgres --single -c exit_on_error=on -D "$1" postgres <<SQL
CREATE ROLE relayd LOGIN PASSWORD '$(password "$relayd")'
CREATE ROLE replicator LOGIN REPLICATION PASSWORD '$(password "$replicator")'
CREATE DATABASE relay OWNER relayd
SQL
    printf 'host %s all scram-sha-256\n' 'relay relayd' 'replication replicator' >>"$1/pg_hba.conf"
    # Files, not flags: `ALTER SYSTEM` changes them, and a standby copies them.
    cat >>"$1/postgresql.conf" <<CONF
synchronous_standby_names = '*'
max_connections = 150
wal_keep_size = '1GB'
CONF
}

copy() {
    until pg_basebackup -d "host=$PRIMARY user=replicator passfile=$replicator" -D "$1" -R -X stream -c fast; do
        rm -rf "$1"
        sleep 1
    done
}

if [ ! -d "$PGDATA" ]; then
    # What was interrupted begins anew.
    rm -rf "$PGDATA.new"
    if [ -n "${PRIMARY-}" ]; then copy "$PGDATA.new"; else make "$PGDATA.new"; fi
    mv "$PGDATA.new" "$PGDATA"
fi
exec postgres -D "$PGDATA" "$@"
