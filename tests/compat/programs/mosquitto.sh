# Mosquitto: QoS 0 to 2, retained messages, a session that is away meanwhile, a last will, 500 messages each, TLS.
# packages: mosquitto mosquitto-clients openssl
# listens: tcp/1883 tcp/8883

prepare() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 30 -subj /CN=server -addext subjectAltName=IP:10.0.0.2 2>/dev/null
	printf 'user root\nlistener 1883\nallow_anonymous true\nlistener 8883\ncertfile cert\nkeyfile key\nmax_queued_messages 0\n' >mosquitto.conf
	seq 1 500 | sed 's/$/ is a number/' >lines
	data large 1
	chmod 644 key
}

server() {
	exec mosquitto -c mosquitto.conf
}

client() {
	pub() { mosquitto_pub -h "$SERVER" "$@"; }
	sub() { mosquitto_sub -h "$SERVER" -W 80 "$@"; }
	pub -r -q 1 -t kept/one -m one
	pub -r -q 2 -t kept/large -f large -V 5
	sub -q 2 -t 'kept/#' -C 2 -F '%t %q %l' | sort
	sub -t kept/large -C 1 -N | sum
	mosquitto_sub -h "$SERVER" --cafile cert -p 8883 -t kept/one -C 1
	for qos in 0 1 2; do
		sub -c -i "reader$qos" -q "$qos" -t "lines/$qos" -E
		mosquitto_pub -h "$SERVER" --cafile cert -p 8883 -q "$qos" -t "lines/$qos" -l <lines
		test "$qos" = 0 || sub -c -i "reader$qos" -q "$qos" -t "lines/$qos" -C 500 | sum
	done
	if together; then
		sub -q 2 -t 'live/#' -v >heard &
		subscriber=$!
		heard() { pub -t live/first -m now && grep -q live/first heard; }
		eventually heard
		pub -q 2 -t live/lines -l <lines
		mkfifo dying
		mosquitto_pub -h "$SERVER6" --will-topic live/will --will-payload gone -t live/dying -l <dying &
		dying=$!
		echo alive >dying &
		sleep 60 >dying &
		eventually grep alive heard
		kill -9 $dying
		eventually grep gone heard
		kill $subscriber %%
		grep -c 'is a number' heard
	fi
}
