package berth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bounding is what constants are called that bound something.
var bounding = regexp.MustCompile(`^[mM]ax[A-Z]`)

// noLimits are constants that are called so and limit nothing that a user or an
// operator could meet, by package and name.
var noLimits = map[string]string{
	"berth.MaxPort": "of TCP", "berth.MaxDynamicPort": "a default, which configuration changes",
	"internal/statsd.maxPacket":              "of UDP: what is more goes into the next packet",
	"internal/api.maxCloseMsg":               "of websockets",
	"internal/accept.maxHTTP":                "part of http_connections, which follows from the machine",
	"internal/accept.maxRPC":                 "part of rpc_connections, which follows from the machine",
	"internal/accept.maxGossip":              "part of gossip_connections, which follows from the machine",
	"internal/admit.MaxServiceNameLen":       "another name of service_name_length",
	"internal/admit.MaxServiceTags":          "another name of tags_per_service",
	"internal/admit.MaxServiceTagLen":        "another name of service_tag_length",
	"internal/server.maxForwards":            "part of rpc_calls_per_method",
	"internal/streams/connect.maxSocketPath": "of the kernel",
	"internal/agent/alloc.maxRunOver":        "a text",
	"internal/fit.maxTries":                  "a search tries the rest in order",
	"internal/schedule/place.maxDraftsKept":  "memory that is used again",
	"internal/schedule/place.maxJointCombos": "below it, a search is exact",
	"internal/schedule/place.maxKnown":       "a cache that is begun again",
	"internal/accept.maxPause":               "a pause after an error of the kernel",
	"internal/agent/driver/docker.maxPeaks":  "of a clock that is put back again and again",
}

// Every constant that bounds something is declared in package limit, and so is on
// the page of limits.
func TestBoundsAreDeclared(t *testing.T) {
	declared := map[string]bool{} // by name of package and of constant
	type constant struct{ dir, pkg, name string }
	var all []constant
	for _, f := range sources(t) {
		if strings.HasPrefix(f.pkg, "test/") || strings.HasPrefix(f.pkg, "bench/") || strings.HasPrefix(f.pkg, "examples/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		pkg := file.Name.Name
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				if fn := d.(*ast.FuncDecl); fn.Recv == nil && declares(fn) {
					noteConstants(fn, pkg, declared)
				}
				continue
			}
			for _, s := range g.Specs {
				v, ok := s.(*ast.ValueSpec)
				switch {
				case !ok:
				case g.Tok == token.CONST:
					for _, n := range v.Names {
						if bounding.MatchString(n.Name) {
							all = append(all, constant{f.pkg, pkg, n.Name})
						}
					}
				default:
					noteConstants(v, pkg, declared)
				}
			}
		}
	}
	if len(all) < 100 {
		t.Errorf("found only %d constants", len(all))
	}
	known := map[string]bool{}
	for _, c := range all {
		at := c.dir + "." + c.name
		known[at] = true
		is := declared[c.pkg+"."+c.name]
		switch why, exempt := noLimits[at]; {
		case !is && !exempt:
			t.Errorf("%s is not declared: see limit.Declare and limit.Bound, or say in noLimits why it is no limit", at)
		case is && exempt:
			t.Errorf("%s is declared, and noLimits says that it is %s", at, why)
		}
	}
	for at := range noLimits {
		if !known[at] {
			t.Errorf("noLimits names %s, which there is not", at)
		}
	}
}

// declares reports whether a function declares limits for others.
func declares(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		found = found || declaration(n)
		return true
	})
	return found
}

// declaration reports whether a node is the call of a function that declares
// limits: of package limit, or one of ours that is named for it.
func declaration(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && x.Name == "limit" && slices.Contains([]string{"Declare", "Bound"}, f.Sel.Name)
	case *ast.Ident:
		return strings.HasSuffix(f.Name, "Limit")
	}
	return false
}

// noteConstants notes the constants that are named in declarations of limits.
func noteConstants(in ast.Node, pkg string, declared map[string]bool) {
	ast.Inspect(in, func(n ast.Node) bool {
		if !declaration(n) {
			return true
		}
		ast.Inspect(n, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.SelectorExpr:
				if of, ok := x.X.(*ast.Ident); ok {
					declared[of.Name+"."+x.Sel.Name] = true
				}
				return false
			case *ast.Ident:
				declared[pkg+"."+x.Name] = true
			}
			return true
		})
		return true
	})
}
