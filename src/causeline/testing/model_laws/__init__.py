"""The promises of `causeline.models.model.Model`, as tests that run on any model.

A model's author writes one class and one fixture (pytest with pytest-asyncio in its `auto` mode):

    from causeline.testing.model_laws import ModelCase, ModelLaws

    class TestMyModel(ModelLaws):
        @pytest.fixture
        async def case(self):
            model = MyModel()
            yield ModelCase(model, Request([Message("user", "Say something long.")]))
            await model.aclose()

Laws that need more than the case offers (a call that fails, one that is retracted) are skipped with the reason.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.promises")

from causeline.testing.model_laws.model_promises import ModelCase, ModelLaws  # noqa: E402 - assertions are rewritten on import

__all__ = ["ModelCase", "ModelLaws"]
