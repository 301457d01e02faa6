package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"berth/client"
	"berth/op"
)

// operatorMetricsCommand prints the metrics of the agent that is called.
func operatorMetricsCommand() *command {
	return &command{
		name: "operator metrics", synopsis: "Print the metrics of an agent",
		example: "operator metrics -format prometheus",
		help:    "Prints the metrics of the agent that is called, as JSON or, with -format prometheus, in the text format of Prometheus.",
		setup: func(f *flags) action {
			pretty := f.Bool("pretty", "Print the JSON indented.")
			format := f.String("format", "The `format`: json or prometheus. Defaults to json.")
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				if !slices.Contains([]string{"", "json", "prometheus"}, *format) {
					return c.usagef("flag -format must be json or prometheus, got %q", *format)
				}
				if data.wanted() {
					out, _, err := client.Call(ctx, c.client, op.Metrics, op.MetricsQuery{})
					if err != nil {
						return err
					}
					return data.write(c, out)
				}
				text, err := c.metrics(ctx, *format)
				if err != nil {
					return err
				}
				if *pretty && *format != "prometheus" {
					var b bytes.Buffer
					if err := json.Indent(&b, text, "", "    "); err != nil {
						return err
					}
					text = b.Bytes()
				}
				_, err = c.Out.Write(append(bytes.TrimRight(text, "\n"), '\n'))
				return err
			}
		},
	}
}

// metrics returns the metrics of the agent in a format; "" is JSON.
func (c *call) metrics(ctx context.Context, format string) ([]byte, error) {
	path := "/v1/metrics"
	if format == "prometheus" {
		path += "?format=prometheus"
	}
	return c.get(ctx, path)
}

// get returns the body of an answer.
func (c *call) get(ctx context.Context, path string) ([]byte, error) {
	r, err := c.client.RawRequest(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Raw(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := c.client.Refused(resp); err != nil {
		return nil, err
	}
	return io.ReadAll(resp.Body)
}
