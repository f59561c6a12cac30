"""A page as a Jupyter widget: what it shows is a value of Python, both ways.

The widget is a frame with the page; the two exchange the state that the page keeps in the hash of its address
(`viewer/src/state.ts`).
"""

from typing import Any

from treefold.extras import is_installed, missing

_FRAME = """
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts allow-downloads";
    frame.style = `width:100%;height:${model.get("height")}px;border:1px solid #ccc`;
    frame.srcdoc = model.get("page");
    const send = () => frame.contentWindow?.postMessage({ treefold: model.get("state") }, "*");
    const hear = (event) => {
      if (event.source !== frame.contentWindow || typeof event.data?.treefold !== "string") return;
      model.set("state", event.data.treefold);
      model.save_changes();
    };
    frame.addEventListener("load", send);
    window.addEventListener("message", hear);
    model.on("change:state", send);
    el.append(frame);
    return () => window.removeEventListener("message", hear);
  },
};
"""


def widget_of(page: str, height: int) -> Any:
    """Return an `anywidget.AnyWidget` that shows the text of a page, `height` pixels high.

    Its attribute `state` is what the page shows, as in the hash of its address: `time=1e-05&trees=[3]`. It changes as
    somebody uses the page, and the page follows if it is set.

    Raises:
        TreefoldError: If anywidget is not installed.

    """
    if not is_installed("widget"):
        raise missing("a widget", "widget")
    import anywidget
    import traitlets

    class PlanWidget(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = _FRAME
        page = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int().tag(sync=True)
        state = traitlets.Unicode().tag(sync=True)

    return PlanWidget(page=page, height=height)
