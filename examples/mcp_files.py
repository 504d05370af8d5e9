"""Tools of a real MCP server: a process of its own that reads files, spoken to over stdio. Needs `causeline[mcp]`."""

import sys
import tempfile
from pathlib import Path

import causeline
from causeline.models import ScriptedModel
from causeline.tools import mcp

SERVER = '''
import sys
from pathlib import Path
from mcp.server import MCPServer

root = Path(sys.argv[1])
server = MCPServer("files")

@server.tool()
def read_file(name: str) -> str:
    """The text of a file."""
    return (root / Path(name).name).read_text()

server.run()
'''

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "notes.txt").write_text("The meeting is at ten.")
    (Path(folder) / "server.py").write_text(SERVER)
    files = mcp([sys.executable, str(Path(folder) / "server.py"), folder], name="files")
    model = ScriptedModel(
        [{"calls": [{"id": "c1", "name": "files__read_file", "arguments": {"name": "notes.txt"}}]}, {"text": "At ten o'clock."}]
    )
    result = causeline.Agent(model, tools=[files]).run_sync("When is the meeting?")
    print(result.status, result.answer)
