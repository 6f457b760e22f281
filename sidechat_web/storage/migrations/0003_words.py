"""The index over the words of messages; in SQLite triggers keep it, PostgreSQL keeps its own."""

from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SQLITE = [
    """CREATE VIRTUAL TABLE storage_passage_words USING fts5(
       words, content='storage_passage', content_rowid='id', tokenize='unicode61 remove_diacritics 0')""",
    """CREATE TRIGGER passage_added AFTER INSERT ON storage_passage
       BEGIN INSERT INTO storage_passage_words(rowid, words) VALUES (NEW.id, NEW.words); END""",
    """CREATE TRIGGER passage_erased AFTER DELETE ON storage_passage
       BEGIN INSERT INTO storage_passage_words(storage_passage_words, rowid, words)
             VALUES ('delete', OLD.id, OLD.words); END""",
]
POSTGRESQL = [
    "CREATE INDEX passage_words ON storage_passage USING gin (array_to_tsvector(string_to_array(words, ' ')))"
]


def create_index(apps: Any, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("storage", "0002_append_only")]
    operations = [migrations.RunPython(create_index, elidable=False)]
