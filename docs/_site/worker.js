// Browsers start no worker for a page that is opened as a file. The search of the site wants one: here it runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = address
      script.onload = () => {
        this.loaded = true
        this.waiting.splice(0).forEach((data) => this.postMessage(data))
      }
      frame.contentDocument.body.append(script)
    }
    postMessage(data) {
      if (this.loaded) this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
      else this.waiting.push(data)
    }
    terminate() {}
  }
}
