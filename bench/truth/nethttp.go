package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/assay-bench/assay/internal/calibrate"
)

// The two ways in which clients are usually written: net/http, a line scanner,
// and the time once a line is there, or once it is decoded.

// isText finds text events without decoding them.
var isText = []byte(`"delta":{"content":"`)

func scanLines(ctx context.Context, s *calibrate.Session) error {
	return stream(ctx, s, func(data []byte) (text, done bool) {
		return bytes.Contains(data, isText), string(data) == "[DONE]"
	})
}

func decodeJSON(ctx context.Context, s *calibrate.Session) error {
	return stream(ctx, s, func(data []byte) (text, done bool) {
		if string(data) == "[DONE]" {
			return false, true
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Role    string `json:"role"`
					Content string `json:"content"`
				} `json:"delta"`
				FinishReason *string `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct {
				CompletionTokens int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if json.Unmarshal(data, &chunk) != nil {
			return false, false
		}
		return len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "", false
	})
}

// stream reads all streams, a goroutine each, by one shared http.Client.
func stream(ctx context.Context, s *calibrate.Session, event func(data []byte) (text, done bool)) error {
	n := s.Load.Streams
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: n, MaxIdleConnsPerHost: n, DisableCompression: true, TLSClientConfig: s.TLSConfig()}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	opening := make(chan struct{}, 64)
	for slot := range n {
		opening <- struct{}{}
		wg.Go(func() {
			var once sync.Once
			opened := func() { once.Do(func() { <-opening }) }
			defer opened()
			for nth := range s.Load.Replies {
				if err := reply(ctx, s, client, slot, nth, opened, event); err != nil {
					cancel(fmt.Errorf("stream %d: %w", slot, err))
					return
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func reply(ctx context.Context, s *calibrate.Session, client *http.Client, slot, nth int, opened func(), event func([]byte) (text, done bool)) error {
	url := s.URL() + "/v1/chat/completions?" + s.Query(slot, nth)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	s.Sent(slot, nth, s.Clock.Now())
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if nth == 0 {
		opened()
		s.Ready()
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		text, _ := event(data)
		if text {
			now := s.Clock.Now()
			s.Event(slot, nth, now, now, false)
		}
	}
	return lines.Err()
}
