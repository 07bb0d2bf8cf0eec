// Java's own engine. Reads lines of two hexadecimal texts, a pattern and a value, and prints whether the
// pattern matches: anywhere and, if it is for the whole text, also as a whole, as Bean Validation uses it.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Pattern;

class Engine {
    static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] parts = line.split(" ", -1);
            var matcher = Pattern.compile(text(parts[0])).matcher(text(parts[1]));
            boolean found = matcher.find();
            boolean agrees = !text(parts[0]).endsWith("$") || matcher.matches() == found;
            System.out.println(agrees ? found : "differs");
        }
    }
}
