<?php
// PCRE, with Unicode and, if the pattern is for the whole text, also without, as some clients use it. Reads lines of two hexadecimal texts, a pattern and a value, and prints whether the
// pattern matches.
declare(strict_types=1);

while (($line = fgets(STDIN)) !== false) {
    [$pattern, $value] = array_map('hex2bin', explode(' ', rtrim($line, "\n")));
    $delimited = '/' . str_replace('/', '\/', $pattern) . '/';
    $found = preg_match($delimited . 'u', $value);
    if ($found === false) {
        throw new RuntimeException("$pattern: " . preg_last_error_msg());
    }
    $agrees = !str_ends_with($pattern, '$') || preg_match($delimited, $value) === $found;
    echo $agrees ? ($found === 1 ? "true\n" : "false\n") : "differs\n";
}
