from tests.adapters.postgres_server import postgres_url, schema_url

__all__ = ["postgres_url", "schema_url"]
