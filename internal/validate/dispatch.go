package validate

import (
	"slices"
	"strings"

	"berth"
)

// Dispatch returns every problem of the payload and meta that a child of a
// parameterized job is to get.
func Dispatch(p *berth.ParameterizedConfig, payload []byte, meta map[string]string) error {
	var ps berth.Problems
	switch n := len(payload); {
	case n > berth.MaxPayload:
		ps.Addf("Payload", "must be at most %d bytes, got %d", berth.MaxPayload, n)
	case n == 0 && p.Payload == berth.PayloadRequired:
		ps.Addf("Payload", "is missing; the job requires one")
	case n > 0 && p.Payload == berth.PayloadForbidden:
		ps.Addf("Payload", "the job forbids one")
	}
	var missing, unknown []string
	for _, k := range p.MetaRequired {
		if _, ok := meta[k]; !ok {
			missing = append(missing, k)
		}
	}
	for k := range meta {
		if !slices.Contains(p.MetaRequired, k) && !slices.Contains(p.MetaOptional, k) {
			unknown = append(unknown, k)
		}
	}
	// Map order is random; the same request must always get the same
	// message.
	slices.Sort(unknown)
	if missing != nil {
		ps.Addf("Meta", "the job requires %s", berth.Clip(strings.Join(missing, ", "), 500))
	}
	if unknown != nil {
		allowed := strings.Join(slices.Concat(p.MetaRequired, p.MetaOptional), ", ")
		if allowed == "" {
			allowed = "none"
		}
		ps.Addf("Meta", "unknown keys %s: want %s", berth.Clip(strings.Join(unknown, ", "), 500), berth.Clip(allowed, 500))
	}
	return ps.Err()
}
