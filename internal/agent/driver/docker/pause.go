package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/moby/moby/client"
)

// The image of containers that hold the network of a group. Its only file is a
// program that waits for ever, so the agent makes it itself, and no registry
// needs to be reached.

const (
	pauseImage = "berth-pause:1"
	pausePath  = "/pause"
)

// pauseCode is the machine code of the program by architecture, as GOARCH names
// it: a loop around a system call that returns only when a signal comes.
var pauseCode = map[string][]byte{
	"amd64": {
		0xb8, 34, 0, 0, 0, // mov eax, 34 (pause)
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the start
	},
	"arm64": words(
		0xaa1f03e0, // mov x0, xzr: no descriptors
		0xaa1f03e1, // mov x1, xzr
		0xaa1f03e2, // mov x2, xzr: no timeout
		0xaa1f03e3, // mov x3, xzr: no signal mask
		0xd2800928, // mov x8, 73 (ppoll)
		0xd4000001, // svc 0
		0x17fffffa, // b to the start
	),
}

// words returns 32-bit instructions as they are stored.
func words(all ...uint32) (out []byte) {
	for _, w := range all {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}

// elfMachine are the numbers of architectures in ELF files.
var elfMachine = map[string]uint16{"amd64": 62, "arm64": 183}

// pauseProgram returns the program as a static ELF file; nil if the architecture is
// neither amd64 nor arm64.
func pauseProgram(arch string) []byte {
	const base, headers = 0x400000, 64 + 56
	code := pauseCode[arch]
	if code == nil {
		return nil
	}
	le := binary.LittleEndian
	b := append([]byte("\x7fELF"), 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0) // 64 bits, little endian, version 1
	b = le.AppendUint16(b, 2)                                          // an executable
	b = le.AppendUint16(b, elfMachine[arch])
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, base+headers) // where it begins
	b = le.AppendUint64(b, 64)           // program headers follow this one
	b = le.AppendUint64(b, 0)            // no sections
	b = le.AppendUint32(b, 0)            // flags
	for _, n := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, n) // sizes and numbers of headers
	}
	size := uint64(headers + len(code))
	b = le.AppendUint32(b, 1) // to be loaded
	b = le.AppendUint32(b, 5) // readable and executable
	for _, n := range []uint64{0, base, base, size, size, 0x10000} {
		b = le.AppendUint64(b, n) // offset, addresses, sizes, alignment
	}
	return append(b, code...)
}

// pauseLayer returns the image's only layer and its digest.
func pauseLayer(program []byte) (layer []byte, digest string, err error) {
	layer, err = archive(pausePath[1:], 0o755, program)
	sum := sha256.Sum256(layer)
	return layer, "sha256:" + hex.EncodeToString(sum[:]), err
}

// archive returns a tar archive of files: name, mode and content of each. What is
// equal gives equal archives.
func archive(files ...any) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for f := range slices.Chunk(files, 3) {
		content := f[2].([]byte)
		if err := w.WriteHeader(&tar.Header{Name: f[0].(string), Mode: int64(f[1].(int)), Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// pauseArchive returns the image in the form that engines load, which "docker
// save" writes.
func pauseArchive(arch string, layer []byte, digest string) ([]byte, error) {
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux", "config": map[string]any{"Entrypoint": []string{pausePath}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest}},
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(config)
	name := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]map[string]any{{"Config": name, "RepoTags": []string{pauseImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return archive(name, 0o644, config, "layer.tar", 0o644, layer, "manifest.json", 0o644, manifest)
}

// pause sees to it that the engine has the image, and returns its ID. Another
// image of that name is replaced.
func (d *Driver) pause(ctx context.Context) (string, error) {
	layer, digest, err := pauseLayer(pauseProgram(runtime.GOARCH))
	if err != nil {
		return "", err
	}
	for loaded := false; ; loaded = true {
		got, err := d.engine.ImageInspect(ctx, pauseImage)
		switch {
		case err == nil && slices.Equal(got.RootFS.Layers, []string{digest}):
			return got.ID, nil
		case err == nil && loaded:
			return "", fmt.Errorf("the engine has another image of the name %s", pauseImage)
		case err != nil && (loaded || !gone(err)):
			return "", fmt.Errorf("image %s: %w", pauseImage, err)
		}
		if err := d.loadPause(ctx, layer, digest); err != nil {
			return "", fmt.Errorf("image %s: %w", pauseImage, err)
		}
	}
}

// loadPause gives the engine the image.
func (d *Driver) loadPause(ctx context.Context, layer []byte, digest string) error {
	b, err := pauseArchive(runtime.GOARCH, layer, digest)
	if err != nil {
		return err
	}
	out, err := d.engine.ImageLoad(ctx, io.NopCloser(bytes.NewReader(b)), client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	return errors.Join(follow(out, nil), out.Close())
}
