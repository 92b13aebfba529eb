// Search runs in a worker, which browsers do not start from a file. There, a hidden frame of the page stands in for it.
if (location.protocol === "file:") {
	window.Worker = class extends EventTarget {
		constructor(url) {
			super()
			const frame = document.createElement("iframe")
			frame.hidden = true
			document.body.append(frame)
			this.inside = frame.contentWindow
			// What the script says to the page that has started it; and each word of the page waits for the script.
			this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
			this.started = new Promise((started) => {
				const script = frame.contentDocument.createElement("script")
				script.src = url
				script.onload = started
				frame.contentDocument.body.append(script)
			})
		}

		postMessage(data) {
			this.started.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
		}
	}
}
