# A service that greets, as its file says when it starts.
import http.server
import os
import pathlib

greeting = pathlib.Path("/local/greeting").read_text().strip()


class Greeter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{greeting} from {os.environ['NOMAD_ALLOC_INDEX']}\n".encode())


http.server.HTTPServer(("", int(os.environ["NOMAD_PORT_http"])), Greeter).serve_forever()
