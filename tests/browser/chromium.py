"""A page in headless Chromium, which PyQt6-WebEngine brings along: what a script finds in it, and a
picture.

python -m tests.browser.chromium PAGE WIDTH HEIGHT SCRIPT [PICTURE.png]
"""

from __future__ import annotations

import os
import sys

#: What is wider than the page and cannot be scrolled by itself; the clicks and texts are the
#: tests'.
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def main(page: str, width: int, height: int, script: str, picture: str | None) -> int:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    # The sandbox needs rights that a container's root has not.
    os.environ.setdefault("QTWEBENGINE_DISABLE_SANDBOX", "1")
    os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--disable-gpu")
    from PyQt6.QtCore import QTimer, QUrl
    from PyQt6.QtWebEngineWidgets import QWebEngineView
    from PyQt6.QtWidgets import QApplication

    application = QApplication(sys.argv[:1])
    view = QWebEngineView()
    view.resize(width, height)
    status = 1

    def shown(answer: object) -> None:
        nonlocal status
        status = 0
        print(f"answer: {answer}")
        if picture is not None:
            QTimer.singleShot(500, pictured)
        else:
            application.quit()

    def pictured() -> None:
        view.grab().save(picture)
        application.quit()

    def loaded(well: bool) -> None:
        if well:
            view.page().runJavaScript(script, shown)
        else:
            application.quit()

    view.loadFinished.connect(loaded)
    view.load(QUrl(page))
    view.show()
    QTimer.singleShot(60_000, application.quit)
    application.exec()
    return status


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(
        main(words[0], int(words[1]), int(words[2]), words[3], words[4] if words[4:] else None)
    )
