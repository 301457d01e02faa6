package cli

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// uiCommand opens the web UI.
func uiCommand() *command {
	return &command{
		name: "ui", args: "[id]", synopsis: "Open the web UI, signed in", max: 1,
		example: "ui web",
		help: `Opens the web UI of the agent in a browser, at the job, allocation, node, evaluation or deployment with the given ID or prefix, if
			there is one. If access control is on and the command has a token, the page is signed in: the address carries a one-time token, which
			the page exchanges at once. Where no browser can be opened, the address is printed.`,
		setup: func(f *flags) action {
			show := f.Bool("show-url", "Print the address instead of opening a browser.")
			sign := f.Bool("authenticate", "Fail if the page cannot be signed in. By default it is signed in if the command has a token.")
			return func(ctx context.Context, c *call) error {
				if *sign && c.config.Token == "" {
					return c.usagef("-authenticate needs a token: set one with -token or $BERTH_TOKEN")
				}
				page := "/"
				if len(c.args) == 1 {
					k, id, err := anyObject(ctx, c, c.args[0])
					if err != nil {
						return err
					}
					page = k.page(c, id)
				}
				address, err := c.uiAddress(page)
				if err != nil {
					return err
				}
				signed, err := c.signedIn(ctx, address, *sign)
				if err != nil {
					return err
				}
				if *show || !c.browse(ctx, signed) {
					_, err = fmt.Fprintln(c.Out, signed)
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Opened %s in a browser.\n", address)
				return err
			}
		},
	}
}

// webFlag declares -ui for commands that call c.web.
func (f *flags) webFlag() {
	f.web = f.Bool("ui", "Also open the web UI at what the command shows. Where no browser can be opened, print its address to standard error.")
}

// web opens a page of the web UI if -ui was given. A failure is reported and
// fails nothing: the command is about something else.
func (c *call) web(ctx context.Context, page string) {
	if c.flags == nil || c.flags.web == nil || !*c.flags.web {
		return
	}
	address, err := c.uiAddress(page)
	if err == nil && c.canBrowse() {
		var signed string
		if signed, err = c.signedIn(ctx, address, false); err == nil && c.browse(ctx, signed) {
			return
		}
	}
	if err != nil {
		fmt.Fprintf(c.Err, "The web UI was not opened: %v\n", err)
		return
	}
	// One-time tokens do not belong into logs, so this address has none.
	fmt.Fprintf(c.Err, "See %s\n", address)
}

// uiAddress is where the agent serves a page.
func (c *call) uiAddress(page string) (string, error) {
	u, err := url.Parse(c.client.Address())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", berth.Errorf(berth.Invalid, "a browser cannot open %s: give an address with http:// or https://", clean(c.client.Address()))
	}
	u.User = nil
	return strings.TrimRight(u.String(), "/") + "/ui" + page, nil
}

// signedIn adds a one-time token to the address of a page. Without access
// control, and without a token unless it is a must, there is nothing to add.
func (c *call) signedIn(ctx context.Context, address string, must bool) (string, error) {
	start, _, err := client.Call(ctx, c.client, op.ReadUIStart, op.Query{})
	switch {
	case err != nil:
		return "", err
	case must && !start.ACL:
		return "", berth.Errorf(berth.Invalid, "-authenticate: access control is off, so there is nobody to sign in")
	case !start.ACL || c.config.Token == "":
		return address, nil
	}
	out, _, err := client.Call(ctx, c.client, op.MakeOneTimeToken, op.MakeOneTime{})
	if err != nil {
		return "", err
	}
	if out.OneTimeToken == nil {
		return "", fmt.Errorf("the agent answered without a one-time token")
	}
	// Browsers do not send what follows the #.
	return address + "#ott=" + url.QueryEscape(out.OneTimeToken.OneTimeSecretID), nil
}

// canBrowse reports whether a person sits at a desktop.
func (c *call) canBrowse() bool {
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if (name == "DISPLAY" || name == "WAYLAND_DISPLAY" || name == "BROWSER") && value != "" && c.Terminal {
			_, err := exec.LookPath("xdg-open")
			return err == nil
		}
	}
	return false
}

// browse opens an address in a browser and reports whether that began.
func (c *call) browse(ctx context.Context, address string) bool {
	if !c.canBrowse() {
		return false
	}
	return exec.CommandContext(ctx, "xdg-open", address).Run() == nil
}

// Pages of the web UI. Names of jobs and paths of variables may hold any
// character.
func uiPage(kind, id string) string { return "/" + kind + "/" + url.PathEscape(id) }

// uiJob is the page of a job.
func uiJob(namespace string, id berth.JobID) string {
	return inSpace(uiPage("job", string(id)), "ns", namespace)
}

// uiAlloc, uiNode, uiEval and uiDeployment are the pages of objects with unique
// IDs.
func uiAlloc(id berth.AllocID) string           { return uiPage("alloc", id.String()) }
func uiNode(id berth.NodeID) string             { return uiPage("node", id.String()) }
func uiEval(id berth.EvalID) string             { return uiPage("eval", id.String()) }
func uiDeployment(id berth.DeploymentID) string { return uiPage("deployment", id.String()) }

// inSpace adds a namespace to a page, unless it is the default.
func inSpace(page, parameter, namespace string) string {
	if namespace == "" || namespace == berth.DefaultNamespace {
		return page
	}
	return page + "?" + parameter + "=" + url.QueryEscape(namespace)
}
