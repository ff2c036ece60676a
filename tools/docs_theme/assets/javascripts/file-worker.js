// Browsers start no worker for a page that was opened from a folder (file://), and search runs in one. There, a hidden
// frame stands in for the worker: it runs the same script, and messages are passed on between the two.
if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null;
    onerror = null;
    #frame = document.createElement("iframe");
    #waiting = [];
    #ready = false;

    constructor(url) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inner = this.#frame.contentWindow;
      inner.document.open();
      inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data: structuredClone(data) }));
      const script = inner.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.#ready = true;
        this.#waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      script.onerror = (event) => this.onerror?.(event);
      inner.document.close();
      (inner.document.body ?? inner.document.documentElement ?? inner.document).append(script);
    }

    postMessage(data) {
      if (!this.#ready) this.#waiting.push(data);
      else setTimeout(() => this.#frame.contentWindow?.onmessage?.({ data: structuredClone(data) }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
