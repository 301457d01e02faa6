package api

import (
	"maps"
	"slices"
	"unicode/utf8"

	"berth"
)

// Limits of what is stored of a node's reports. Longer values are cut, not
// refused: an agent whose reports are refused could not go on.
const (
	maxSentence = 1024 // bytes of a message or a description
	maxDetails  = 32   // entries beside a message
)

// cut shortens a text to at most most bytes, at the end of a rune, and replaces
// invalid UTF-8.
func cut(s string, most int) string {
	if len(s) > most {
		end := most
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return s
}

// cutDetails returns a copy with at most maxDetails entries, the first by name,
// with names and values cut; nil if there are none.
func cutDetails(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, min(len(m), maxDetails))
	for _, name := range slices.Sorted(maps.Keys(m))[:min(len(m), maxDetails)] {
		out[cut(name, maxNodeText)] = cut(m[name], maxSentence)
	}
	return out
}

// boundEvent returns an event of a node, cut to the limits.
func boundEvent(e *berth.NodeEvent) *berth.NodeEvent {
	if e == nil {
		return nil
	}
	b := *e
	b.Message, b.Subsystem, b.Details = cut(e.Message, maxSentence), cut(e.Subsystem, maxNodeText), cutDetails(e.Details)
	return &b
}

// boundStates returns the states of a group's tasks, cut to the limits. States of
// unknown tasks are dropped.
func boundStates(states map[string]*berth.TaskState, g *berth.TaskGroup) map[string]*berth.TaskState {
	out := make(map[string]*berth.TaskState, len(g.Tasks))
	for _, t := range g.Tasks {
		if states[t.Name] == nil {
			continue
		}
		s := *states[t.Name]
		s.Events = slices.Clone(s.Events[max(0, len(s.Events)-berth.TaskEventsKept):])
		for i, e := range s.Events {
			e.Type, e.Message, e.DisplayMessage = cut(e.Type, maxNodeText), cut(e.Message, maxSentence), cut(e.DisplayMessage, maxSentence)
			e.Details = cutDetails(e.Details)
			s.Events[i] = e
		}
		out[t.Name] = &s
	}
	return out
}

// boundNetwork returns the network status of an allocation, cut to the limits.
func boundNetwork(n *berth.AllocNetworkStatus) *berth.AllocNetworkStatus {
	if n == nil {
		return nil
	}
	b := *n
	b.InterfaceName, b.Address, b.AddressIPv6 = cut(n.InterfaceName, maxNodeText), cut(n.Address, maxNodeText), cut(n.AddressIPv6, maxNodeText)
	if n.DNS != nil {
		b.DNS = &berth.DNSConfig{Servers: cutList(n.DNS.Servers), Searches: cutList(n.DNS.Searches), Options: cutList(n.DNS.Options)}
	}
	return &b
}

// cutList returns at most maxDetails texts of a list, each cut.
func cutList(list []string) (out []string) {
	for _, s := range list[:min(len(list), maxDetails)] {
		out = append(out, cut(s, maxNodeText))
	}
	return out
}
