// Twenty files and twenty echoes at once.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;

class Client {
    static String sum(HttpResponse<byte[]> response) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(response.body());
            return response.statusCode() + " " + HexFormat.of().formatHex(hash);
        } catch (Exception e) {
            return e.toString();
        }
    }

    public static void main(String[] arguments) {
        HttpClient client = HttpClient.newHttpClient();
        var answers = new ArrayList<CompletableFuture<String>>();
        for (int i = 0; i < 20; i++) {
            var file = HttpRequest.newBuilder(URI.create(arguments[0] + "/file")).build();
            var body = BodyPublishers.ofString("body ".repeat(50_000));
            var echo = HttpRequest.newBuilder(URI.create(arguments[0] + "/echo")).POST(body).build();
            answers.add(client.sendAsync(file, BodyHandlers.ofByteArray()).thenApply(Client::sum));
            answers.add(client.sendAsync(echo, BodyHandlers.ofByteArray()).thenApply(Client::sum));
        }
        answers.forEach(answer -> System.out.println(answer.join()));
    }
}
