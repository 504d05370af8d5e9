import json
import subprocess
import sys

import pytest

from causeline.adapters.models import OpenAIModel, open_model
from causeline.adapters.models.model_names import UnknownModelKind
from causeline.errors import Invalid, Missing
from causeline.models.messages import Message
from causeline.models.model import Request
from causeline.models.scripted_model import InvalidScript
from causeline.models.stream import collect

ASKED = Request([Message("user", "hi")])


async def test_a_script_is_found_beside_the_file_that_names_it(tmp_path):
    (tmp_path / "script.json").write_text(json.dumps([{"text": "scripted"}]))
    model = open_model("scripted:script.json", base=tmp_path, stream=False)
    assert (await collect(model.stream(ASKED))).text == "scripted"
    assert model.name == "scripted:script.json"


async def test_models_that_need_no_script_have_names():
    assert (await collect(open_model("scripted:echo").stream(ASKED))).text == "hi"
    assert open_model("scripted:loop-3").name == "scripted:loop-3"


def test_options_not_given_are_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert isinstance(open_model("openai:gpt:turbo", base_url=None, api_key_env=None), OpenAIModel)
    assert open_model("openai:gpt:turbo").name == "openai:gpt:turbo"


@pytest.mark.parametrize("spec", ["gpt-5", "what:ever", "openai:", ":x", ""])
def test_an_unknown_kind_lists_what_there_is(spec):
    with pytest.raises(UnknownModelKind, match="openai:NAME, scripted:FILE"):
        open_model(spec)


def test_an_option_without_use_is_refused():
    with pytest.raises(Invalid, match="no use for base_url"):
        open_model("scripted:echo", base_url="http://127.0.0.1:1")
    with pytest.raises(Invalid, match="no use for colour"):
        open_model("openai:x", colour="red")


def test_a_script_that_is_not_there_or_not_a_script_is_named(tmp_path):
    (tmp_path / "broken.json").write_text("[")
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "wrong.json").write_text('[{"txt": 1}]')
    with pytest.raises(Missing, match=r"absent\.json"):
        open_model("scripted:absent.json", base=tmp_path)
    for name, error in (("broken", Invalid), ("object", Invalid), ("wrong", InvalidScript)):
        with pytest.raises(error, match=name):
            open_model(f"scripted:{name}.json", base=tmp_path)


def test_no_library_is_loaded_before_its_model_is_used():
    code = "import sys, causeline.adapters.models; print(sorted({'openai', 'httpx2', 'xllamacpp', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
