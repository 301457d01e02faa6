package plugin

import (
	"reflect"
	"strings"
	"testing"

	wire "berth/internal/agent/plugin/pluginwire"
)

func attr(name, kind string, required bool) *wire.Spec {
	return &wire.Spec{Attr: &wire.Attr{Name: name, Type: kind, Required: required}}
}

// TestSchemas reads configs by schemas of each kind.
func TestSchemas(t *testing.T) {
	object := func(in map[string]*wire.Spec) *wire.Spec { return &wire.Spec{Object: &wire.Object{Attributes: in}} }
	all := object(map[string]*wire.Spec{
		"text":  attr("text", "string", true),
		"list":  attr("", "list(string)", false), // named by its place
		"n":     {Default: &wire.Default{Primary: attr("n", "number", false), Default: &wire.Spec{Literal: &wire.Literal{Value: "max(2, 3)"}}}},
		"env":   {BlockAttrs: &wire.BlockAttrs{Name: "env", Type: "string"}},
		"block": {Block: &wire.Block{Name: "block", Nested: object(map[string]*wire.Spec{"on": attr("on", "bool", true)})}},
		"many":  {BlockList: &wire.BlockList{Name: "many", Max: 2, Nested: object(map[string]*wire.Spec{"a": attr("a", "string", true)})}},
		"by":    {BlockMap: &wire.BlockMap{Name: "by", Labels: []string{"label"}, Nested: object(map[string]*wire.Spec{"v": attr("v", "number", true)})}},
	})
	b, err := Encode("config", all, map[string]any{
		"text": "${not.interpolated}", "list": []any{"x"}, "env": map[string]any{"K": "v"}, "block": []any{map[string]any{"on": true}},
		"many": []any{map[string]any{"a": "1"}, map[string]any{"a": "2"}}, "by": []any{map[string]any{"one": []any{map[string]any{"v": 1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"text": "${not.interpolated}", "list": []any{"x"}, "n": 3.0, "env": map[string]any{"K": "v"}, "block": map[string]any{"on": true},
		"many": []any{map[string]any{"a": "1"}, map[string]any{"a": "2"}}, "by": map[string]any{"one": map[string]any{"v": 1.0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#v", got)
	}
	for says, config := range map[string]map[string]any{
		`"text" is required`:      {},
		"a bool is required":      {"text": "a", "block": map[string]any{"on": "maybe"}},
		"more":                    {"text": "a", "more": 1},
		"No more than 2":          {"text": "a", "many": []any{map[string]any{"a": "1"}, map[string]any{"a": "2"}, map[string]any{"a": "3"}}},
		"list of string required": {"text": "a", "list": "x"},
	} {
		if _, err := Encode("config", all, config); err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "config: ") {
			t.Errorf("%v: %v, want %s", config, err, says)
		}
	}
	deep := attr("a", "string", false)
	for range 40 {
		deep = object(map[string]*wire.Spec{"a": deep})
	}
	for name, s := range map[string]*wire.Spec{
		"empty": {}, "no nested": {Block: &wire.Block{Name: "b"}}, "type": attr("a", "strin", false), "expression": {Literal: &wire.Literal{Value: "file(\"/etc/passwd\")"}}, "deep": deep,
	} {
		if _, err := Encode("config", s, nil); err == nil || !strings.HasPrefix(err.Error(), "the plugin's schema: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
