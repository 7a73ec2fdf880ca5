"""What the site's pages differ by from those of the repository."""

import os
import posixpath
import re

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_config(config):
    """Lists the pages of the reference, of which there is one for each command."""
    folder = os.path.join(config["docs_dir"], "docs", "reference")
    pages = sorted(f for f in os.listdir(folder) if f.endswith(".md") and f != "README.md")
    listed = ["docs/reference/README.md"] + [f"docs/reference/{f}" for f in pages]
    config["nav"] = [{k: listed if v == "REFERENCE" else v for k, v in entry.items()} for entry in config["nav"]]
    return config


def on_page_markdown(markdown, page, config, files):
    """Leaves links out that lead to what the site does not have, such as folders of code."""
    of = posixpath.dirname(page.file.src_uri)

    def link(found):
        text, target = found.group(1), found.group(2)
        if re.match(r"[a-z]+:", target):
            return found.group(0)
        path = posixpath.normpath(posixpath.join(of, target))
        return found.group(0) if files.get_file_from_path(path) else text

    return LINK.sub(link, markdown)
