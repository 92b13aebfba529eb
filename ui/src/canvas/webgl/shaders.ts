// The shaders. Coordinates: the world's, then CSS pixels from the canvas's middle (y downwards), then the GPU's.

const VIEW = `
uniform vec3 u_camera; // x, y, pixels per unit
uniform vec2 u_clip; // from pixels to the GPU's coordinates
vec2 pixels(vec2 world) { return (world - u_camera.xy) * u_camera.z; }
vec4 clip(vec2 at) { return vec4(at * u_clip, 0.0, 1.0); }
const vec4 NOWHERE = vec4(2.0, 2.0, 2.0, 1.0);
`;

export const LINE_VERTEX = `${VIEW}
uniform float u_rim;
in vec4 a_line;
in vec4 a_extent; // begin, length, side, width
in vec4 a_colour;
in vec2 a_dash;
out vec4 v_colour;
out vec2 v_dash;
out float v_along;
out float v_across;
out float v_half;
void main() {
  vec2 from = pixels(a_line.xy);
  vec2 way = pixels(a_line.zw) - from;
  float far = length(way);
  vec2 along = far > 0.0 ? way / far : vec2(1.0, 0.0);
  vec2 across = vec2(-along.y, along.x);
  float rim = a_extent.y > 0.0 || a_dash.y > 0.0 ? u_rim : 0.0;
  float begin = rim + a_extent.x;
  float end = a_extent.y > 0.0 ? min(begin + a_extent.y, far - rim) : far + a_extent.y - rim;
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  v_half = a_extent.w * 0.5;
  v_along = mix(begin, end, corner.x);
  v_across = (corner.y * 2.0 - 1.0) * (v_half + 0.5);
  v_colour = a_colour;
  v_dash = a_dash;
  gl_Position = end > begin ? clip(from + along * v_along + across * (a_extent.z + v_across)) : NOWHERE;
}`;

export const LINE_FRAGMENT = `
uniform float u_seconds;
in vec4 v_colour;
in vec2 v_dash;
in float v_along;
in float v_across;
in float v_half;
out vec4 colour;
void main() {
  float alpha = clamp(v_half + 0.5 - abs(v_across), 0.0, 1.0);
  if (v_dash.x > 0.0 && fract((v_along - u_seconds * v_dash.y) / v_dash.x) > 0.5) alpha = 0.0;
  colour = vec4(v_colour.rgb, 1.0) * (v_colour.a * alpha);
}`;

export const SHAPE_VERTEX = `${VIEW}
uniform float u_size; // half of a node's, pixels
in vec4 a_box;
in vec4 a_fill;
in vec4 a_stroke;
in uint a_look;
out vec4 v_fill;
out vec4 v_stroke;
out vec2 v_at;
flat out vec2 v_half;
flat out uint v_look;
void main() {
  v_half = a_box.zw * ((a_look & 1024u) != 0u ? u_camera.z : u_size);
  float margin = float(a_look >> 16) * 0.5 + 1.0;
  v_at = (vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0 - 1.0) * (v_half + margin);
  v_fill = a_fill;
  v_stroke = a_stroke;
  v_look = a_look;
  gl_Position = clip(pixels(a_box.xy) + v_at);
}`;

export const SHAPE_FRAGMENT = `
in vec4 v_fill;
in vec4 v_stroke;
in vec2 v_at;
flat in vec2 v_half;
flat in uint v_look;
out vec4 colour;
void main() {
  uint shape = v_look & 255u;
  float least = min(v_half.x, v_half.y);
  float far; // from the rim, outwards
  if (shape == 3u) {
    far = (abs(v_at.x) / v_half.x + abs(v_at.y) / v_half.y - 1.0) * least * 0.7;
  } else {
    float radius = shape == 1u ? least : shape == 0u ? min(least * 0.4, 12.0) : 0.0;
    vec2 out_of = abs(v_at) - v_half + radius;
    far = length(max(out_of, 0.0)) + min(max(out_of.x, out_of.y), 0.0) - radius;
  }
  float stroke = min(float(v_look >> 16), least) * 0.5;
  float inside = clamp(0.5 - far - stroke, 0.0, 1.0);
  float around = clamp(0.5 + stroke - abs(far), 0.0, 1.0);
  vec4 fill = v_fill;
  if ((v_look & 512u) != 0u && far < -0.3 * least) fill = mix(v_stroke, fill, 0.2);
  if ((v_look & 256u) != 0u) {
    float bar = min(abs(v_at.x - v_at.y), abs(v_at.x + v_at.y)) * 0.7;
    if (bar < max(least * 0.14, 0.7)) fill = v_stroke;
  }
  vec4 above = vec4(v_stroke.rgb, 1.0) * (v_stroke.a * around);
  vec4 below = vec4(fill.rgb, 1.0) * (fill.a * inside);
  colour = above + below * (1.0 - above.a);
}`;

// A flight is where its time of departure and the time shown say. Times are subtracted as integers, so that nothing is
// lost however long the lab has run.
export const FLIGHT_VERTEX = `${VIEW}
uniform sampler2D u_ends;
uniform ivec2 u_now; // µs after the chunk's base, and the rest in ns
uniform vec4 u_times; // each hop's least time, a lost packet's, µs
uniform float u_rim;
uniform float u_lane;
uniform float u_size; // device pixels
uniform uvec2 u_follow; // 0 none, 1 id, 2 aux; and its value
uniform vec4 u_colours[32];
uniform float u_glyphs[32];
in uvec4 a_flight; // end, sent, lasts, id
in uvec2 a_packet; // length, class, fate; aux
flat out vec4 v_colour;
flat out float v_glyph;
void main() {
  gl_Position = NOWHERE;
  gl_PointSize = 1.0;
  uint sent = a_flight.y;
  float age = float(u_now.x - int(sent / 1000u)) + float(u_now.y - int(sent % 1000u)) * 0.001;
  bool is_lost = (a_packet.x >> 24) != 0u;
  float lasts = max(float(a_flight.z), is_lost ? u_times.y : u_times.x);
  if (age < 0.0 || age >= lasts) return;
  vec4 ends = texelFetch(u_ends, ivec2(int(a_flight.x & 1023u), int(a_flight.x >> 10)), 0);
  if (ends.x > 1e8) return;
  vec2 from = pixels(ends.xy);
  vec2 way = pixels(ends.zw) - from;
  float far = length(way);
  if (far < 1.0) return;
  way /= far;
  float done = age / lasts;
  float alpha = 1.0;
  if (is_lost) {
    alpha = 1.0 - done;
    done = min(done, 0.4);
  }
  float rim = min(u_rim, far * 0.4);
  vec2 at = from + way * mix(rim, far - rim, done) + vec2(-way.y, way.x) * u_lane;
  uint kind = min((a_packet.x >> 16) & 255u, 30u);
  float size = u_size * (0.8 + 0.4 * min(float(a_packet.x & 65535u) / 1500.0, 1.0));
  if (u_follow.x != 0u) {
    bool is_it = (u_follow.x == 1u ? a_flight.w : a_packet.y) == u_follow.y;
    if (is_it) size *= 1.7; else alpha *= 0.2;
  }
  if (is_lost) { kind = 31u; size *= 1.5; }
  v_colour = vec4(u_colours[kind].rgb, 1.0) * alpha;
  v_glyph = u_glyphs[kind];
  gl_PointSize = size;
  gl_Position = clip(at);
}`;

export const FLIGHT_FRAGMENT = `
uniform sampler2D u_atlas; // of glyphs, side by side
uniform float u_count;
uniform float u_plain; // 1: too small for glyphs
flat in vec4 v_colour;
flat in float v_glyph;
out vec4 colour;
void main() {
  float alpha = 1.0;
  if (u_plain < 0.5) alpha = textureLod(u_atlas, vec2((v_glyph + gl_PointCoord.x) / u_count, gl_PointCoord.y), 0.0).a;
  colour = v_colour * alpha;
}`;

export const TEXT_VERTEX = `${VIEW}
uniform float u_ratio;
in vec4 a_place; // the label's place in the world, and this letter's left upper corner from there, pixels
in vec4 a_letter; // in the atlas, its pixels: left, top, width, height
in vec4 a_colour;
out vec2 v_at;
out vec4 v_colour;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  v_at = a_letter.xy + corner * a_letter.zw;
  v_colour = a_colour;
  // On whole device pixels, so that letters are sharp.
  vec2 at = floor((pixels(a_place.xy) + a_place.zw) * u_ratio + 0.5) + corner * a_letter.zw;
  gl_Position = clip(at / u_ratio);
}`;

export const TEXT_FRAGMENT = `
uniform sampler2D u_atlas; // red: the letter and its halo, green: the letter
uniform vec4 u_ground;
in vec2 v_at;
in vec4 v_colour;
out vec4 colour;
void main() {
  vec2 ink = texelFetch(u_atlas, ivec2(v_at), 0).rg;
  float alpha = max(ink.r * 0.8, ink.g);
  colour = vec4(mix(u_ground.rgb, v_colour.rgb, ink.g), 1.0) * alpha;
}`;
