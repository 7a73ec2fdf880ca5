import pathlib

import pytest

from conftest import REPOSITORY

needs = "is not installed: pip install -r requirements-torch.txt"
nbclient = pytest.importorskip("nbclient", reason=f"nbclient {needs}")
for module in ("ipykernel", "matplotlib", "pandas", "torch_geometric"):
    pytest.importorskip(module, reason=f"{module} {needs}")


@pytest.mark.parametrize("path", sorted(p.name for p in (REPOSITORY / "tools/python/examples").glob("*.ipynb")))
def test_notebook(path):
    """All cells run, and as many of them draw as do in the file that is committed."""
    import nbformat

    examples: pathlib.Path = REPOSITORY / "tools/python/examples"
    drawn = lambda n: sum("image/png" in o.get("data", {}) for cell in n.cells for o in cell.get("outputs", []))
    notebook = nbformat.read(examples / path, 4)
    plots = drawn(notebook)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(examples)}}).execute()
    assert drawn(notebook) == plots > 0
