// Draws one dashboard: its panels in their places, each with the answers that take.py recorded.
import { createTheme, ThemeContext } from '@grafana/data';
import { PanelChrome } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { Body } from './panels.jsx';

const COLUMNS = 24;
const GAP = 8;
const CELL_HEIGHT = 30;

function Dashboard({ recorded, theme, width }) {
  const column = (width - GAP) / COLUMNS;
  const bottom = Math.max(...recorded.panels.map((panel) => panel.gridPos.y + panel.gridPos.h));
  return (
    <div style={{ background: theme.colors.background.canvas, color: theme.colors.text.primary, padding: GAP }}>
      <h1 style={{ fontSize: 20, fontWeight: 500, margin: '4px 8px 12px' }}>{recorded.title}</h1>
      <div style={{ position: 'relative', height: bottom * (CELL_HEIGHT + GAP) }}>
        {recorded.panels.map((panel) => (
          <Panel key={panel.id} panel={panel} recorded={recorded} theme={theme} column={column} />
        ))}
      </div>
    </div>
  );
}

function Panel({ panel, recorded, theme, column }) {
  const { x, y, w, h } = panel.gridPos;
  const width = w * column - GAP;
  const height = h * (CELL_HEIGHT + GAP) - GAP;
  const place = { position: 'absolute', left: x * column, top: y * (CELL_HEIGHT + GAP), width, height };
  if (panel.type === 'row') {
    return <div style={{ ...place, fontWeight: 500, paddingTop: 6 }}>⌄ {panel.title}</div>;
  }
  return (
    <div style={place}>
      <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
        {(innerWidth, innerHeight) => (
          <Body panel={panel} recorded={recorded} theme={theme} width={innerWidth} height={innerHeight} />
        )}
      </PanelChrome>
    </div>
  );
}

const parameters = new URLSearchParams(window.location.search);
const theme = createTheme({ colors: { mode: parameters.get('theme') ?? 'dark' } });
const recorded = await (await fetch(parameters.get('recorded'))).json();
Object.assign(document.body.style, { background: theme.colors.background.canvas, color: theme.colors.text.primary });
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <Dashboard recorded={recorded} theme={theme} width={window.innerWidth - 2 * GAP} />
  </ThemeContext.Provider>
);
