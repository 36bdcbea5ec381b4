// A page opened from disk may start no worker, so the search of the site runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.answer = data => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.srcdoc = `<script>postMessage = data => frameElement.answer(data)</script><script src="${url}"></script>`;
      this.frame = new Promise(ready => frame.addEventListener("load", () => ready(frame.contentWindow)));
      document.body.append(frame);
    }

    postMessage(data) {
      this.frame.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
