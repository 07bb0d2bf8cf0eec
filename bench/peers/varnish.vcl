vcl 4.1;
# Varnish with vsthrottle by API key. It counts within one process only, and accepts any key.
import vsthrottle;

backend origin { .host = "127.0.0.1"; .port = "@origin@"; }

sub vcl_recv {
    if (vsthrottle.is_denied(req.http.X-API-Key, 2147483647, 60s)) {
        return (synth(429, "Too Many Requests"));
    }
    return (hash);
}

sub vcl_backend_response {
    set beresp.ttl = 1h;
}
