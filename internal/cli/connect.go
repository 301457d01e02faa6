package cli

import (
	"errors"
	"fmt"
	"strings"

	"berth"
	"berth/client"
)

// clientFlags are the flags of all commands that call an agent.
type clientFlags struct {
	address, region, namespace, token *string
	noColor, forceColor               *bool
	tls                               *tlsFlags
}

// declare declares the flags. Their defaults are empty, so that config can tell
// a flag that was given from one that was not.
func (c *clientFlags) declare(f *flags) {
	c.address = f.String("address", "The `address` of the agent: [http://]host:port, https://host:port or unix:///path. Defaults to $BERTH_ADDR, then $NOMAD_ADDR, then "+client.DefaultAddress+".")
	c.region = f.String("region", "The `region` to send requests to. Defaults to $BERTH_REGION, then $NOMAD_REGION, then the agent's region.")
	c.namespace = f.String("namespace", "The `namespace` of the command. Commands that only read accept '*' for all namespaces. Defaults to $BERTH_NAMESPACE, then $NOMAD_NAMESPACE, then \"default\".")
	c.token = f.String("token", "The secret ID of the `token` to send. Defaults to $BERTH_TOKEN, then $NOMAD_TOKEN.")
	c.noColor = f.Bool("no-color", "Disable bold and colored output. Setting $BERTH_CLI_NO_COLOR, $NOMAD_CLI_NO_COLOR or $NO_COLOR does the same.")
	c.forceColor = f.Bool("force-color", "Print headings in bold and states in color even if the output is not a terminal. -no-color takes precedence. Setting $BERTH_CLI_FORCE_COLOR or $NOMAD_CLI_FORCE_COLOR does the same.")
	c.tls = declareTLS(f)
}

// clientConfig is how a command calls its agent.
type clientConfig struct {
	client.Config
	addressFrom string // the flag or variable that set the address; "" is the default
	color       bool
}

// config merges flags and environment; flags win.
func (c *clientFlags) config(p *Program) (out clientConfig, err error) {
	// Only the address reports where it came from, for advise.
	pick := func(flag, env string) (string, string) {
		if flag != "" {
			return flag, "flag"
		}
		return p.env(env)
	}
	out.Address, out.addressFrom = pick(*c.address, "ADDR")
	if out.addressFrom == "flag" {
		out.addressFrom = "-address"
	}
	out.Address = withScheme(out.Address)
	out.Region, _ = pick(*c.region, "REGION")
	out.Namespace, _ = pick(*c.namespace, "NAMESPACE")
	out.Token, _ = pick(*c.token, "TOKEN")
	out.BasicAuth, _ = p.env("HTTP_AUTH")
	// Any value that is not empty counts.
	_, plain := p.env("CLI_NO_COLOR")
	for _, kv := range p.Env {
		if v, ok := strings.CutPrefix(kv, "NO_COLOR="); ok && v != "" { // https://no-color.org
			plain = v
		}
	}
	_, forced := p.env("CLI_FORCE_COLOR")
	out.color = (p.Terminal || *c.forceColor || forced != "") && !*c.noColor && plain == ""
	out.TLS, err = c.tls.config(p, out.Address)
	return out, err
}

// withScheme completes an address that is just host:port.
func withScheme(addr string) string {
	if addr == "" || strings.Contains(addr, "://") {
		return addr
	}
	return "http://" + addr
}

// advise adds to a connection error where the address came from.
func (c *clientConfig) advise(err error) error {
	if _, ok := errors.AsType[*client.Unreachable](err); !ok {
		return err
	}
	if c.addressFrom == "" {
		return fmt.Errorf("%w (the default address; set another with -address or $BERTH_ADDR)", err)
	}
	return fmt.Errorf("%w (the address comes from %s)", err, c.addressFrom)
}

// space is the namespace of the command, or the default one.
func (c *clientConfig) space() string {
	if c.Namespace == "" {
		return berth.DefaultNamespace
	}
	return c.Namespace
}

// anySpace is where objects with unique IDs are looked up: all namespaces, unless
// one was given.
func (c *clientConfig) anySpace() string {
	if c.Namespace == "" {
		return berth.AllNamespaces
	}
	return c.Namespace
}
