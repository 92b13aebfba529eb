// Gives the user a file that the page has made.

/** How long its bytes are kept for a browser that begins to read them later, ms. */
const KEPT_MS = 10_000;

export function download(name: string, file: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
