// Command build makes the files of the web UI, internal/ui/dist, from the
// TypeScript sources in internal/ui/src and the packages in internal/ui/npm. It
// needs neither Node nor a network, and the same sources always give the same
// bytes: a test compares them.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// bundle returns the files of the UI, by name, from its sources in a directory.
func bundle(dir string) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	npm := func(name string) string { return filepath.Join(dir, "npm", name) }
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: dir,
		EntryPoints:   []string{"src/main.tsx", "src/main.css", "src/extra.css"},
		Outdir:        "dist",
		EntryNames:    "[name]",
		ChunkNames:    "[name]-[hash]",
		Bundle:        true,
		Splitting:     true,
		Format:        api.FormatESModule,
		Target:        api.ES2022,
		Charset:       api.CharsetUTF8,
		JSX:           api.JSXAutomatic, JSXImportSource: "preact",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		LegalComments: api.LegalCommentsNone, // dist/LICENSES has them
		Alias: map[string]string{
			"preact/jsx-runtime": npm("preact/jsx-runtime/dist/jsxRuntime.mjs"),
			"preact/hooks":       npm("preact/hooks/dist/hooks.mjs"),
			"preact":             npm("preact/dist/preact.mjs"),
			"uplot":              npm("uplot/dist/uPlot.esm.js"),
			"@xterm/xterm":       npm("@xterm/xterm/lib/xterm.mjs"),
			"@xterm/addon-fit":   npm("@xterm/addon-fit/lib/addon-fit.mjs"),
		},
		// An empty configuration keeps esbuild from reading those of directories
		// above.
		TsconfigRaw: `{"compilerOptions":{"jsx":"react-jsx","jsxImportSource":"preact","useDefineForClassFields":true}}`,
	})
	var errs []error
	for _, m := range api.FormatMessages(result.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage}) {
		errs = append(errs, errors.New(m))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	for _, name := range []string{"index.html", "icon.svg"} {
		if files[name], err = os.ReadFile(filepath.Join(dir, "src", name)); err != nil {
			return nil, err
		}
	}
	files["LICENSES.txt"], err = licenses(dir)
	return files, err
}

// licenses returns the licences of the packages in npm.
func licenses(dir string) ([]byte, error) {
	var out []byte
	for _, name := range []string{"preact", "uplot", "@xterm/xterm", "@xterm/addon-fit"} {
		b, err := os.ReadFile(filepath.Join(dir, "npm", name, "LICENSE"))
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "==== %s\n\n%s\n", name, b)
	}
	return out, nil
}

// write replaces the files of a directory.
func write(dir string, files map[string][]byte) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	log.SetFlags(0)
	dir := filepath.Join("internal", "ui")
	files, err := bundle(dir)
	if err == nil {
		err = write(filepath.Join(dir, "dist"), files)
	}
	if err != nil {
		log.Fatal(err)
	}
}
