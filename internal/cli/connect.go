package cli

import (
	"errors"
	"fmt"

	"berth"
	"berth/client"
)

// clientFlags are the flags of every command that calls an agent.
type clientFlags struct {
	address, region, namespace, token *string
	noColor, forceColor               *bool
	tls                               *tlsFlags
}

func (c *clientFlags) declare(f *flags) {
	c.address = f.String("address", "The `address` of the agent: http://host:port, https://host:port or unix:///path. Otherwise BERTH_ADDR or NOMAD_ADDR say it; it is "+client.DefaultAddress+" if they do not.")
	c.region = f.String("region", "The `region` to ask. Otherwise BERTH_REGION or NOMAD_REGION say it; it is the agent's own if they do not.")
	c.namespace = f.String("namespace", "The `namespace` to look in; '*' is all of them, where something is only looked up. Otherwise BERTH_NAMESPACE or NOMAD_NAMESPACE say it; it is \"default\" if they do not.")
	c.token = f.String("token", "The secret `token` to send. Otherwise BERTH_TOKEN or NOMAD_TOKEN say it.")
	c.noColor = f.Bool("no-color", "Write plain text. BERTH_CLI_NO_COLOR and NOMAD_CLI_NO_COLOR do the same.")
	c.forceColor = f.Bool("force-color", "Write headings in bold though no terminal is seen, unless -no-color is given. BERTH_CLI_FORCE_COLOR and NOMAD_CLI_FORCE_COLOR do the same.")
	c.tls = declareTLS(f)
}

// clientConfig is which agent a command calls, as whom, and who said so.
type clientConfig struct {
	client.Config
	addressFrom string // the flag or variable; "" is the default
	color       bool
}

// config puts flags over the environment.
func (c *clientFlags) config(p *Program) (out clientConfig, err error) {
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
	out.Region, _ = pick(*c.region, "REGION")
	out.Namespace, _ = pick(*c.namespace, "NAMESPACE")
	out.Token, _ = pick(*c.token, "TOKEN")
	out.BasicAuth, _ = p.env("HTTP_AUTH")
	_, plain := p.env("CLI_NO_COLOR")
	_, forced := p.env("CLI_FORCE_COLOR")
	out.color = (p.Terminal || *c.forceColor || forced != "") && !*c.noColor && plain == ""
	out.TLS, err = c.tls.config(p, out.Address)
	return out, err
}

// advise adds to an error what the user can do about the connection.
func (c *clientConfig) advise(err error) error {
	if _, ok := errors.AsType[*client.Unreachable](err); !ok {
		return err
	}
	if c.addressFrom == "" {
		return fmt.Errorf("%w (this is the default address; the flag -address or the variable BERTH_ADDR sets another)", err)
	}
	return fmt.Errorf("%w (the address comes from %s)", err, c.addressFrom)
}

// space is the namespace that was asked for, or the one that counts if none
// was.
func (c *clientConfig) space() string {
	if c.Namespace == "" {
		return berth.DefaultNamespace
	}
	return c.Namespace
}

// anySpace is where things are looked up whose IDs are unique anyway: all
// namespaces, unless one was asked for.
func (c *clientConfig) anySpace() string {
	if c.Namespace == "" {
		return berth.AllNamespaces
	}
	return c.Namespace
}
