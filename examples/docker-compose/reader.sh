#!/bin/sh
# A role for Grafana that may read the ledger's tables, also those made later, and change nothing.
set -eu
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set password="$POSTGRES_PASSWORD" <<'SQL'
CREATE ROLE otel_drift_reader LOGIN PASSWORD :'password';
GRANT USAGE ON SCHEMA public TO otel_drift_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE otel_drift IN SCHEMA public GRANT SELECT ON TABLES TO otel_drift_reader;
SQL
