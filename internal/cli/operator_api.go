package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"berth"
	"berth/op"
)

// operatorAPICommand sends any request to the HTTP API.
func operatorAPICommand() *command {
	return &command{
		name: "operator api", args: "<path>", synopsis: "Send a request to the HTTP API", min: 1, max: 1,
		example: "operator api -filter 'Status == \"ready\"' /v1/nodes",
		help: `Sends a request to the HTTP API with the address, token and certificates of the command line, and prints the body of the answer.
			The path may have a query and may omit "/v1". The body of the request is read from standard input if that is a file or a pipe;
			the method is then PUT.

			The exit code is 1 if the status of the answer is 400 or higher; its text is then on standard error.`,
		setup: func(f *flags) action {
			a := apiCall{
				dry:     f.Bool("dryrun", "Print the command line of curl that would send the request, and exit. The token is not printed."),
				filter:  f.String("filter", "Add this filter `expression` to the query."),
				verbose: f.Bool("verbose", "Print the headers of request and answer on standard error."),
				method:  f.String("X", "The HTTP `method`. Defaults to GET, or to PUT if there is a body."),
				headers: f.List("H", "Add the header `name: value`. Can be repeated."),
			}
			return a.run
		},
	}
}

// apiCall holds the flags of "operator api".
type apiCall struct {
	dry     *bool
	filter  *string
	verbose *bool
	method  *string
	headers *[]string
}

// maxAPIBody bounds the body of a request; it is kept in memory so that it can
// be sent again.
const maxAPIBody = 64 << 20

// run sends the request and prints the answer.
func (a apiCall) run(ctx context.Context, c *call) error {
	path, err := a.path(c)
	if err != nil {
		return err
	}
	header := http.Header{}
	for _, h := range *a.headers {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return c.usagef("flag -H must be name: value, got %q", h)
		}
		header.Add(name, strings.TrimSpace(value))
	}
	body, err := a.body(c)
	if err != nil {
		return err
	}
	method := strings.ToUpper(*a.method)
	switch {
	case method == "" && len(body) > 0:
		method = http.MethodPut
	case method == "":
		method = http.MethodGet
	}
	r, err := c.client.RawRequest(ctx, method, path, header, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if len(body) > 0 && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if *a.dry {
		_, err := fmt.Fprintln(c.Out, clean(curl(c, r, len(body) > 0)))
		return err
	}
	return a.send(c, r)
}

// path returns the path of the request with its query.
func (a apiCall) path(c *call) (string, error) {
	u, err := url.Parse(c.args[0])
	if err != nil || u.IsAbs() || u.Host != "" {
		return "", c.usagef("the path must be one of the HTTP API, such as /v1/jobs, got %q", c.args[0])
	}
	path := "/" + strings.TrimLeft(u.EscapedPath(), "/")
	if !strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/.well-known/") {
		path = "/v1" + path
	}
	query := u.Query()
	if *a.filter != "" {
		query.Set("filter", *a.filter)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}

// body reads the body from standard input, if that is not a terminal or a
// device.
func (a apiCall) body(c *call) ([]byte, error) {
	if m := strings.ToUpper(*a.method); m == http.MethodGet || m == http.MethodHead {
		return nil, nil
	}
	if f, ok := c.In.(*os.File); ok {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 {
			return nil, nil
		}
	}
	body, err := io.ReadAll(io.LimitReader(c.In, maxAPIBody+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if len(body) > maxAPIBody {
		return nil, berth.Errorf(berth.TooLarge, "the body must be at most %d bytes", maxAPIBody)
	}
	return body, nil
}

// send sends the request and copies the answer.
func (a apiCall) send(c *call, r *http.Request) error {
	if *a.verbose {
		fmt.Fprintf(c.Err, "> %s %s\n", r.Method, clean(r.URL.RequestURI()))
		printHeader(c.Err, ">", r.Header)
	}
	resp, err := c.client.Raw(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if *a.verbose {
		fmt.Fprintf(c.Err, "< %s %s\n", resp.Proto, resp.Status)
		printHeader(c.Err, "<", resp.Header)
	}
	if resp.StatusCode >= 400 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		fmt.Fprintf(c.Err, "Error: %s: %s\n", resp.Status, clean(strings.TrimSpace(string(text))))
		return exit(exitError)
	}
	_, err = io.Copy(c.Out, resp.Body)
	return err
}

// secretHeaders are not printed.
var secretHeaders = []string{op.HeaderToken, "Authorization"}

// printHeader prints headers in order of name, without secrets.
func printHeader(w io.Writer, mark string, h http.Header) {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := strings.Join(h[name], ", ")
		if slices.Contains(secretHeaders, name) {
			value = "<redacted>"
		}
		fmt.Fprintf(w, "%s %s: %s\n", mark, name, clean(value))
	}
}

// curl returns the command line that sends a request. It names the variable
// that holds the token instead of the token.
func curl(c *call, r *http.Request, body bool) string {
	words := []string{"curl"}
	if r.Method != http.MethodGet {
		words = append(words, "-X", r.Method)
	}
	var names []string
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range r.Header[name] {
			switch name {
			case op.HeaderToken:
				words = append(words, "-H", `"`+name+`: ${NOMAD_TOKEN}"`)
			case "Authorization":
				words = append(words, "-u", `"${NOMAD_HTTP_AUTH}"`)
			default:
				words = append(words, "-H", quoted(name+": "+v))
			}
		}
	}
	for _, x := range []struct{ flag, value string }{
		{"--cacert", c.config.TLS.CACert}, {"--capath", c.config.TLS.CAPath}, {"--cert", c.config.TLS.ClientCert}, {"--key", c.config.TLS.ClientKey},
	} {
		if x.value != "" {
			words = append(words, x.flag, quoted(x.value))
		}
	}
	if c.config.TLS.SkipVerify {
		words = append(words, "--insecure")
	}
	if socket, ok := strings.CutPrefix(c.config.Address, "unix://"); ok {
		words = append(words, "--unix-socket", quoted(socket))
	}
	if body {
		words = append(words, "--data-binary", "@-")
	}
	return strings.Join(append(words, quoted(r.URL.String())), " ")
}
