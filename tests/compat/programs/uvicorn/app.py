"""Answers by path: numbers in pieces, what was sent, or that a WebSocket's messages were seen."""


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for event in "startup", "shutdown":
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": message["bytes"][::-1]})
        return
    path = scope["path"]
    if path == "/fail":
        raise RuntimeError("asked for")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", path.encode())]})
    if path == "/numbers":
        for i in range(2000):
            await send({"type": "http.response.body", "body": b"%d\n" % i * 100, "more_body": True})
    more = path == "/echo"
    while more:
        message = await receive()
        more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": message["body"], "more_body": True})
    await send({"type": "http.response.body", "body": path.encode() + b"\n"})
