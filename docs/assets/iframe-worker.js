// Search on pages that are opened as files. A browser starts no Worker from file://, so this one is
// a hidden frame that runs the same script. Served over HTTP, nothing here is used.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      window.addEventListener("message", (event) => {
        if (event.source !== frame.contentWindow) return;
        const copy = new MessageEvent("message", {data: event.data});
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      });
      const page = frame.contentWindow.document;
      this.ready = new Promise((resolve) => { frame.contentWindow.coppiceReady = resolve; });
      page.open();
      page.write(`<html><body><script>
        postMessage = (data) => parent.dispatchEvent(
            new MessageEvent("message", {data, source: window}));
        importScripts = (...urls) => urls.flat().reduce((before, url) => before.then(
            () => new Promise((resolve) => {
              const script = document.createElement("script");
              script.src = url;
              script.onload = script.onerror = resolve;
              document.body.appendChild(script);
            })), Promise.resolve());
      <\/script><script src="${url}" onload="coppiceReady()"><\/script></body></html>`);
      page.close();
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(
          new MessageEvent("message", {data})));
    }

    terminate() { this.frame.remove(); }
  };
}
