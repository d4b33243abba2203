"""A GitHub on 127.0.0.1: the REST calls that autoforge makes and real git over HTTP, on one bare repository."""

from autoforge.demo.github.repository import Account, Pull, Repository
from autoforge.demo.github.server import LoopbackGitHub

__all__ = ["Account", "LoopbackGitHub", "Pull", "Repository"]
