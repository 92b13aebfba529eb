// An HTTP server of a file and an echo, and a client of both.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

func serve(address string) {
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "file") })
	http.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			log.Print(err)
		}
		w.Write(body)
	})
	log.Fatal(http.ListenAndServe(address, nil))
}

func sum(response *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, response.Body)
	return fmt.Sprintf("%s %d %v %x", response.Status, n, err, hash.Sum(nil))
}

func fetch(address string) {
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			fmt.Println(sum(http.Get("http://" + address + "/file")))
			body := bytes.Repeat([]byte("body "), 200_000)
			fmt.Println(sum(http.Post("http://"+address+"/echo", "text/plain", bytes.NewReader(body))))
		}()
	}
	all.Wait()
	// A deadline that passes while a read waits.
	connection, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	connection.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err = connection.Read(make([]byte, 1))
	fmt.Println("a deadline passed:", os.IsTimeout(err))
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	fetch(os.Args[2])
}
