package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// methodFlags are the flags of commands that create or change an auth method.
type methodFlags struct {
	kind, locality, naming, config *string
	ttl                            *time.Duration
	isDefault                      *bool
}

// method declares the flags.
func (f *flags) method() methodFlags {
	return methodFlags{
		kind:      f.String("type", "The `type` of the auth method: OIDC or JWT."),
		locality:  f.String("token-locality", "Where tokens are valid: the `locality` local or global."),
		naming:    f.String("token-name-format", "The `template` of the names of tokens, such as ${auth_method_name}-${value.user}."),
		ttl:       f.FlagSet.Duration("max-token-ttl", 0, "The `duration` for which tokens are valid, such as 8h."),
		isDefault: f.Bool("default", "Use the auth method for logins that name none of its type."),
		config:    f.String("config", "The `configuration` as JSON, @ and the name of a file with it, or - for standard input."),
	}
}

// apply changes what the flags say.
func (m methodFlags) apply(c *call, f *flags, in *op.WriteAuthMethod) error {
	for name, set := range map[string]func(){
		"type": func() { in.Type = *m.kind }, "token-locality": func() { in.TokenLocality = *m.locality },
		"token-name-format": func() { in.TokenNameFormat = *m.naming }, "max-token-ttl": func() { in.MaxTokenTTL = *m.ttl },
		"default": func() { in.Default = *m.isDefault },
	} {
		if f.given(name) {
			set()
		}
	}
	for _, kind := range []string{berth.AuthOIDC, berth.AuthJWT} {
		if strings.EqualFold(in.Type, kind) {
			in.Type = kind
		}
	}
	if !f.given("config") {
		return nil
	}
	text, err := methodConfig(c, *m.config)
	if err != nil {
		return err
	}
	in.Config = &berth.AuthMethodConfig{}
	if err := json.Unmarshal(text, in.Config); err != nil {
		return c.usagef("-config: %v", err)
	}
	return unknownKeys(c, text, in.Config)
}

// methodConfig returns the text of -config.
func methodConfig(c *call, value string) ([]byte, error) {
	name, isFile := strings.CutPrefix(value, "@")
	if value == "-" {
		return io.ReadAll(io.LimitReader(c.In, op.MaxBody))
	}
	if !isFile {
		return []byte(value), nil
	}
	file, _, err := c.readFile(name, "configuration")
	if err != nil {
		return nil, err
	}
	return file.Text, nil
}

// unknownKeys refuses keys that a configuration does not have.
func unknownKeys(c *call, text []byte, config *berth.AuthMethodConfig) error {
	known, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var given, have map[string]any
	if err := json.Unmarshal(text, &given); err != nil {
		return c.usagef("-config: %v", err)
	}
	if err := json.Unmarshal(known, &have); err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range have {
		names[strings.ToLower(name)] = true
	}
	for name, v := range given {
		if !names[strings.ToLower(name)] && v != nil {
			return c.usagef("-config: unknown key %q", berth.Clip(name, 64))
		}
	}
	return nil
}

// showAuthMethod shows an auth method.
func showAuthMethod(_ *call, p *page, m op.AuthMethod) {
	p.pairs("Name", m.Name, "Type", m.Type, "Locality", m.TokenLocality, "Max Token TTL", m.MaxTokenTTL, "Token Name Format", m.TokenNameFormat,
		"Default", strconv.FormatBool(m.Default), "Create Index", strconv.FormatUint(m.CreateIndex, 10), "Modify Index", strconv.FormatUint(m.ModifyIndex, 10))
	p.heading("Config")
	text, err := json.MarshalIndent(m.Config, "", "  ")
	if err != nil {
		p.linef("%v", err)
	}
	for line := range strings.Lines(string(text)) {
		p.linef("%s", clean(strings.TrimRight(line, "\n")))
	}
}

// authMethodCreateCommand creates an auth method.
func authMethodCreateCommand() *command {
	return &command{
		name: "acl auth-method create", synopsis: "Create an auth method",
		example: "acl auth-method create -name sso -type OIDC -token-locality local -max-token-ttl 8h -config @sso.json",
		help: `Creates an auth method: an identity provider that is trusted for logins. Binding rules say what a login grants. The secret of an OIDC client is
			stored encrypted and never shown again.`,
		setup: func(f *flags) action {
			data, m := f.data(), f.method()
			name := f.String("name", "The `name` of the auth method.")
			return func(ctx context.Context, c *call) error {
				in := op.WriteAuthMethod{Name: *name}
				if err := m.apply(c, f, &in); err != nil {
					return err
				}
				return answer(data, func(ctx context.Context, c *call) (op.AuthMethod, error) {
					out, _, err := client.Call(ctx, c.client, op.CreateAuthMethod, in)
					return out, err
				}, showAuthMethod)(ctx, c)
			}
		},
	}
}

// authMethodUpdateCommand changes an auth method.
func authMethodUpdateCommand() *command {
	return &command{
		name: "acl auth-method update", args: "<name>", synopsis: "Change an auth method", min: 1, max: 1, list: "acl auth-method list",
		example: "acl auth-method update -max-token-ttl 1h sso",
		help:    `Changes the given fields of an auth method. A configuration replaces the one before; "redacted" as its OIDCClientSecret keeps the secret.`,
		setup: func(f *flags) action {
			data, m := f.data(), f.method()
			return func(ctx context.Context, c *call) error {
				old, _, err := client.Call(ctx, c.client, op.ReadAuthMethod, op.AuthMethodRef{MethodName: c.args[0]})
				if err != nil {
					return err
				}
				ttl, err := time.ParseDuration(old.MaxTokenTTL)
				if err != nil {
					return err
				}
				in := op.WriteAuthMethod{
					MethodName: old.Name, Name: old.Name, Type: old.Type, TokenLocality: old.TokenLocality, TokenNameFormat: old.TokenNameFormat,
					MaxTokenTTL: ttl, Default: old.Default, Config: old.Config,
				}
				if err := m.apply(c, f, &in); err != nil {
					return err
				}
				return answer(data, func(ctx context.Context, c *call) (op.AuthMethod, error) {
					out, _, err := client.Call(ctx, c.client, op.UpdateAuthMethod, in)
					return out, err
				}, showAuthMethod)(ctx, c)
			}
		},
	}
}

// authMethodInfoCommand shows one auth method.
func authMethodInfoCommand() *command {
	return &command{
		name: "acl auth-method info", args: "<name>", synopsis: "Show an auth method", min: 1, max: 1, list: "acl auth-method list",
		example: "acl auth-method info sso",
		help:    "Shows an auth method with its configuration, without the secret of its client.",
		setup: func(f *flags) action {
			return answer(f.data(), func(ctx context.Context, c *call) (op.AuthMethod, error) {
				out, _, err := client.Call(ctx, c.client, op.ReadAuthMethod, op.AuthMethodRef{MethodName: c.args[0]})
				return out, err
			}, showAuthMethod)
		},
	}
}

// authMethodListCommand lists the auth methods.
func authMethodListCommand() *command {
	return &command{
		name: "acl auth-method list", synopsis: "List auth methods",
		example: "acl auth-method list",
		help:    "Lists the auth methods. It needs no token.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListAuthMethods, &in, &in, "No ACL auth methods found", func(p *page, list []op.AuthMethodStub) {
					rows := [][]string{{"Name", "Type", "Default"}}
					for _, m := range list {
						rows = append(rows, []string{m.Name, m.Type, strconv.FormatBool(m.Default)})
					}
					p.table(rows)
				})
			}
		},
	}
}

// authMethodDeleteCommand deletes an auth method.
func authMethodDeleteCommand() *command {
	return &command{
		name: "acl auth-method delete", args: "<name>", synopsis: "Delete an auth method", min: 1, max: 1, list: "acl auth-method list",
		example: "acl auth-method delete sso",
		help:    "Deletes an auth method and its binding rules. Tokens of earlier logins stay until they expire.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				if _, _, err := client.Call(ctx, c.client, op.RemoveAuthMethod, op.DeleteAuthMethod{MethodName: c.args[0]}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted ACL auth method %q!\n", c.args[0])
				return err
			}
		},
	}
}
