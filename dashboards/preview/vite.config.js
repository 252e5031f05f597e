// No plugin for React: the newest one wants a newer Vite than the rest works with, and JSX needs none.
export default {
  base: './',
  esbuild: { jsx: 'automatic' },
  define: { 'process.env.NODE_ENV': '"production"' },
  build: { chunkSizeWarningLimit: 8000 },
};
