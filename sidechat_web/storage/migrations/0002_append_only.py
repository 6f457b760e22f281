"""The database itself refuses to change an event, or to erase one of a session that was not deleted."""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SQLITE = [
    """CREATE TRIGGER event_never_updated BEFORE UPDATE ON storage_event
       BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TRIGGER event_erased_with_session BEFORE DELETE ON storage_event
       WHEN EXISTS (SELECT 1 FROM storage_session WHERE id = OLD.session_id AND deleted_at IS NULL)
       BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
]
POSTGRESQL = [
    """CREATE FUNCTION event_never_updated() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$""",
    """CREATE FUNCTION event_erased_with_session() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN
         IF EXISTS (SELECT 1 FROM storage_session WHERE id = OLD.session_id AND deleted_at IS NULL) THEN
           RAISE EXCEPTION 'events are append-only';
         END IF;
         RETURN OLD;
       END $$""",
    """CREATE TRIGGER event_never_updated BEFORE UPDATE ON storage_event
       FOR EACH ROW EXECUTE FUNCTION event_never_updated()""",
    """CREATE TRIGGER event_erased_with_session BEFORE DELETE ON storage_event
       FOR EACH ROW EXECUTE FUNCTION event_erased_with_session()""",
]


def create_triggers(apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("storage", "0001_initial")]
    operations = [migrations.RunPython(create_triggers, elidable=False)]
