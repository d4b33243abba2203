"""The words that agents and reviewers read, one Markdown file each."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def render(name: str, /, **values: object) -> str:
    """The text of `name`.md with its variables filled in. Raises jinja2.UndefinedError for one that is missing."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # the output is Markdown
    )
    return environment.get_template(f"{name}.md").render(**values)
