"""Draws the figure of the guide docs/frozen_lake.md. It is that of the gallery, so its program does it."""

from __future__ import annotations

import gallery

if __name__ == "__main__":
    gallery.main(["frozen_lake"])
