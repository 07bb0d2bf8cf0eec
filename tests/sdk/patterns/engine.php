<?php
// PCRE, with Unicode. Reads lines of two hexadecimal texts, a pattern and a value, and prints whether the
// pattern matches.
declare(strict_types=1);

while (($line = fgets(STDIN)) !== false) {
    [$pattern, $value] = array_map('hex2bin', explode(' ', rtrim($line, "\n")));
    $found = preg_match('/' . str_replace('/', '\/', $pattern) . '/u', $value);
    if ($found === false) {
        throw new RuntimeException("$pattern: " . preg_last_error_msg());
    }
    echo $found === 1 ? "true\n" : "false\n";
}
