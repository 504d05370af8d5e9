"""The table `[memory]` of a manifest: checked like every other, and kept with the agent's runs."""

import json

import pytest

from causeline.agent.manifest.manifest import manifest_from_plain, read_manifest
from tests.agent.test_manifest import GOOD, GRAPH, HEAD, findings, folder, write

__all__ = ["folder"]


@pytest.mark.parametrize("table, stored", [("[memory]\n", {}), ('[memory]\nnamespace = "notes"\nheader = "Known:"\n', None)])
def test_a_memory_without_a_store_is_that_of_the_runtime(folder, table, stored):
    manifest = read_manifest(write(folder, HEAD + GRAPH + table))
    assert manifest.options.offers_remember
    assert manifest.options.memory == ({"namespace": "notes", "header": "Known:"} if stored is None else stored)
    assert manifest_from_plain(json.loads(json.dumps(manifest.to_plain()))).options.memory == manifest.options.memory


def test_a_memory_given_beside_the_file_is_stored_with_it(folder):
    manifest = read_manifest(write(folder, GOOD), {"memory": "sqlite:////tmp/m.db"})
    assert manifest.to_plain()["memory"] == {"store": "sqlite:////tmp/m.db"}
    assert manifest_from_plain(manifest.to_plain()).options.memory == {"store": "sqlite:////tmp/m.db"}


@pytest.mark.parametrize(
    "text, line",
    [
        (HEAD + GRAPH + '[memory]\nstore = "redis://x"', "agent.toml:6: memory.store: expected the address of a store"),
        (HEAD + GRAPH + '[memory]\nstore = "postgresql://a:b@db/x"', "agent.toml:6: memory.store: an address without a password"),
        (HEAD + GRAPH + "[memory]\nk = 0", "agent.toml:6: memory.k: expected a whole number from 1"),
        (HEAD + GRAPH + '[memory]\nnamespace = "{{ user }}"', "agent.toml:6: memory.namespace: unknown variable user"),
        ("memory = 3\n" + HEAD + GRAPH, "agent.toml:1: memory: expected a table"),
    ],
)
def test_faults_are_told_at_their_key(folder, text, line):
    assert any(found.startswith(line) for found in findings(write(folder, text)))
