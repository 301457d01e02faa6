package ui

import "encoding/json"

// field finds the first text with a name in JSON.
func field(text, name string) string {
	var v any
	_ = json.Unmarshal([]byte(text), &v)
	var find func(any) string
	find = func(v any) string {
		switch x := v.(type) {
		case map[string]any:
			if s, ok := x[name].(string); ok {
				return s
			}
			for _, y := range x {
				if s := find(y); s != "" {
					return s
				}
			}
		}
		return ""
	}
	return find(v)
}
