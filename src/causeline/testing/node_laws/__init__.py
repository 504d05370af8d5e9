"""The promises of a node (`causeline.graph.node`), as tests that run on any node.

A node's author writes one class and one fixture (pytest with pytest-asyncio in its `auto` mode):

    from causeline.testing.node_laws import NodeCase, NodeLaws

    class TestFetch(NodeLaws):
        @pytest.fixture
        def case(self):
            return NodeCase(node=fetch, state={"url": "example.html"}, services={Browser: FakeBrowser()})

Laws that need more than the case offers (a visit that waits for a person, one that takes its time) are skipped with the reason.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.promises")

from causeline.testing.node_laws.node_promises import NodeCase, NodeLaws  # noqa: E402 - assertions are rewritten on import

__all__ = ["NodeCase", "NodeLaws"]
