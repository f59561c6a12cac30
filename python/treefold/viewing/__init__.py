"""Shows plans in a browser: a page with the network, the trees, how busy links are, and when what is sent.

`views` makes pages of plans, `answers` those of questions about a network, and `pages` writes them. `scenes` and
`networks` gather what they know, `columns` packs numbers, and `built` finds the viewer, whose sources are in `viewer/`.
"""

from treefold.viewing.answers import view_answer
from treefold.viewing.pages import Page
from treefold.viewing.views import view

__all__ = ["Page", "view", "view_answer"]
