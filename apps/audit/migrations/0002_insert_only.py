"""The portal's own database role may add to the history and read it, nothing else."""

from django.db import migrations

ROLE = "maas_app"

# Where there is no such role (a database of one owner) nothing is protected, and the operators' page says so.
GRANT = f"""
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN
    GRANT USAGE ON SCHEMA public TO {ROLE};
    REVOKE ALL ON audit_entry FROM {ROLE};
    GRANT SELECT, INSERT ON audit_entry TO {ROLE};
    GRANT USAGE ON SEQUENCE audit_entry_id_seq TO {ROLE};
  END IF;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_initial")]
    operations = [migrations.RunSQL(GRANT, migrations.RunSQL.noop)]
